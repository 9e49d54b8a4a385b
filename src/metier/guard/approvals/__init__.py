"""What people decide: approvals bound to content, quarantines, and who may decide."""
