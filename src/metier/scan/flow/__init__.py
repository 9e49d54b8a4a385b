"""Where data goes in scripts: read by their structure, brought into one small form, and followed from source to sink.

It reads what `metier.scan` has taken apart already, and the core pack, which says what sources and sinks are called.
Nothing that it is given is run, imported or fetched.
"""
