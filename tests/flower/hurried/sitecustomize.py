"""Half a second where Flower's SuperNode waits three for the next message."""

import time

usual = time.sleep


def sleep(seconds):
    usual(0.5 if seconds == 3 else seconds)


time.sleep = sleep
