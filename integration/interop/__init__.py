"""Sessions that go back and forth between the real ``dsh`` and us, and its verdicts on a corpus of logs."""
