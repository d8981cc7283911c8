"""The commands: flags, a config, one library call."""
