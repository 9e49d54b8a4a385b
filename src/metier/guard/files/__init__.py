"""Files that tools and jobs may touch: names and places that stay closed, and the check of a call's files."""
