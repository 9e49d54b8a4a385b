# /// script
# requires-python = ">=3.11"
# dependencies = ["tomli>=2"]
# ///
import tomli

print(tomli.__name__)
