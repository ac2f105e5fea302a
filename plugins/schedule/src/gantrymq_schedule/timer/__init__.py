"""Messages with a time of their own: TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS, and their recall."""
