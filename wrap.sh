#!/bin/bash
/work/wt/f/.venv/bin/python3 job.py
echo ended
