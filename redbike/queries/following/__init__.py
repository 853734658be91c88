"""Jobs that follow others: when their parents make them due, what each of them waits for, and who follows whom."""
