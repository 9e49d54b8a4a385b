"""The registry of a server: releases in namespaces with owners, submissions that are reviewed, and deployments.

All of it is in the store, so that several processes serve the same; the lists that clients ask for are derived.
"""
