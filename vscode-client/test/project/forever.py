"""Never ends by itself, and has a child of its own."""

import subprocess
import sys
import time

print("has begun", flush=True)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)  # child of forever"])
while True:
    time.sleep(0.1)
