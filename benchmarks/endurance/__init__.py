"""Long runs that look for what breaks in time: each file is a command, and a short run of each is a test."""
