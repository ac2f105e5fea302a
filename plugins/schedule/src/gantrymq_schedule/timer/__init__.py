"""Timed messages (TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS) and their recall."""
