"""Speed on this machine, beside other projects."""
