"""Five papers on one screen, each as published, and made sound where it can be: `dptext papers [NAME]`.

A module for each paper has `built_in`, which makes texts, and `study`, which measures them; `table` holds the answer,
`texts` what is measured on, and `measuring` what several papers share. Every number has its interval at 95%, and stands
beside the originals, public text alone and random words. Nothing is fitted in advance.

A study is for learning: its seed is fixed, and its numbers are computed from originals, so no guarantee covers them.
"""
