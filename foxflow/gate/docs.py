"""Data Docs of a gate: Great Expectations' own site, in which no text of a record becomes markup."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from great_expectations.render.view.view import DefaultJinjaPageView, contextfilter

from foxflow.errors import must

SITE = "foxflow"


class TextView(DefaultJinjaPageView):  # type: ignore[misc]
    """Great Expectations' page, whose tables would show a record's strings as HTML."""

    @contextfilter
    def render_content_block(self, jinja_context: Any, content_block: Any, *args: Any, **kwargs: Any) -> Any:
        """Escape what is plain text; the rest is Great Expectations' own."""
        if isinstance(content_block, str):
            return html.escape(content_block)
        if isinstance(content_block, list):
            content_block = [html.escape(one) if isinstance(one, str) else one for one in content_block]
        return super().render_content_block(jinja_context, content_block, *args, **kwargs)


def write(context: Any, folder: Path, keys: Sequence[Any], said: Sequence[str]) -> None:
    """Build the site: index.html, a page for each suite and one for each frame.

    Args:
        context: in which the checkpoints ran.
        folder: of the site; what it holds already stays.
        keys: Great Expectations' keys of the results.
        said: the gate's sentence and what failed, which may be more than Great Expectations saw.

    Raises:
        Mistake: the folder can't be written.
    """
    for name in context.get_site_names():
        context.delete_data_docs_site(name)
    view = {"module_name": __name__, "class_name": TextView.__name__}
    site = {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder.absolute())},
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        "site_section_builders": {
            "validations": {
                "class_name": "DefaultSiteSectionBuilder",
                "source_store_name": context.validation_results_store_name,
                "view": view,
            }
        },
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        context.add_data_docs_site(SITE, site)
        context.build_data_docs([SITE])
        _add(folder / "index.html", keys, said)
    except OSError as error:
        raise must("--docs", "name a folder that can be written", str(error)) from error


def _add(index: Path, keys: Sequence[Any], said: Sequence[str]) -> None:
    """Add the gate's words and plain links: Great Expectations' index is a script's work that needs a network."""
    lines = [html.escape(line) for line in said]
    for key in keys:
        path = "/".join(("validations", *key.to_tuple())) + ".html"
        name = f"{key.expectation_suite_identifier.name}: {key.run_id.run_name}"
        lines.append(f'<a href="{html.escape(path)}">{html.escape(name)}</a>')
    listed = "\n".join(f"<li>{line}</li>" for line in lines)
    page = index.read_text(encoding="utf-8")
    index.write_text(page.replace("</body>", f"<ul>\n{listed}\n</ul>\n</body>"), encoding="utf-8")
