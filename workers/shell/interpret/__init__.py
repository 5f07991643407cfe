"""What a script would do: files, programs and hosts, for the policy."""
