"""The papers, table by table: `make papers` runs the benches and writes one page.

`catalogue` reads lab/papers.toml, every item of the five texts; `expression` names figures that
benches print; `steps` are the benches and `runner` runs them, resumably; `environment` describes
the machine; `results` joins all that, with `verdict`s, to results.json; `page`, `charts` and
`page.css` draw it.
"""
