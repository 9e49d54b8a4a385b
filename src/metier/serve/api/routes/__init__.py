"""The routes of the API, a module for each kind of resource."""

from metier.serve.api.routes import people, sign_in

ROUTERS = (people.router, sign_in.router)
"""All routers, in the order of the documentation."""
