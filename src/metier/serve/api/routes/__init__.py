"""The routes of the API, a module for each kind of resource."""

from metier.serve.api.routes import people

ROUTERS = (people.router,)
"""All routers, in the order of the documentation."""
