"""The commands that work on folders of jobs: status, check, export and report; and `drawahead sample` into one."""
