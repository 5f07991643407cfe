"""Commands about merge queues, and `forgepool gate check`."""
