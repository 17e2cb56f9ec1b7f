"""Noise processes of users: functions of time, equations, schedules, conversions of predictions, denoisers."""
