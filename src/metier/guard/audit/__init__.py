"""The audit log: records, the logs that keep them, checkpoints, verification and export."""
