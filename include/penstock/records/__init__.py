"""From a record to a row, or to the reason why it cannot become one."""
