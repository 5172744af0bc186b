"""Ways into named nodes by SSH: by paramiko (`client.py`), by the ssh program (`openssh.py`), through pdsh."""
