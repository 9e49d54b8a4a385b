"""Files that tools and jobs may touch: protected names and places, the access in a workspace, the check of a call."""
