"""A contract type for import-linter: what a folder may import, everything else is refused.

Lists of what is forbidden forget the next library; this one names the few that are allowed. The
standard library always is. Used by the contracts in setup.cfg.
"""

import sys
from typing import cast

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class AllowedContract(Contract):
    """`source_modules`, with all below them, import only themselves and `allowed_modules`."""

    type_name = "allowed"

    source_modules = fields.ListField(subfield=fields.StringField())
    allowed_modules = fields.ListField(subfield=fields.StringField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Return every direct import that the contract does not allow; sources must exist."""
        # The fields are declared as descriptors and hold lists once the contract is read.
        sources = cast("list[str]", self.source_modules)
        allowed = sources + cast("list[str]", self.allowed_modules or [])
        if absent := [source for source in sources if source not in graph.modules]:
            raise ValueError(f"setup.cfg, {self.name!r}: no module {', '.join(absent)}")
        details = [
            f"{importer} imports {imported} ({_lines(graph, importer, imported)})"
            for importer in sorted(graph.modules)
            if _is_in(importer, sources)
            for imported in sorted(graph.find_modules_directly_imported_by(importer))
            if not _is_in(imported, allowed)
            and imported.partition(".")[0] not in sys.stdlib_module_names
        ]
        return ContractCheck(kept=not details, metadata={"details": details})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one line an import."""
        for detail in check.metadata["details"]:
            output.print_error(f"- {detail}", bold=False)
        output.new_line()


def _is_in(module: str, packages: list[str]) -> bool:
    """Tell whether `module` is one of `packages` or below one."""
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _lines(graph: ImportGraph, importer: str, imported: str) -> str:
    """Return the line numbers of an import, as `line 3` or `line 3, 17`."""
    found = graph.get_import_details(importer=importer, imported=imported)
    return "line " + ", ".join(str(detail["line_number"]) for detail in found)
