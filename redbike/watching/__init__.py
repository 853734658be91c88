"""What others watch: whether all is well, and figures for those who draw charts of them and raise alarms."""
