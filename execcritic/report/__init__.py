"""One run as one HTML file: `report.html`, which opens from disk and loads nothing.

`reading` takes what a run directory holds within bounds, `contents` puts it together, `diffs`, `quotes`, `rounds` and
`turns` are its parts, and `page` makes the file. What the files hold was written by agents, by repositories and by
whoever wrote the issue: it is text to be shown, nothing in it is obeyed.
"""
