"""Every part of a Markdown file that is made from the code."""

from tests.support.references import act_kinds, commands, figures, http_api, metrics, options
from tests.support.references.generated import Reference

REFERENCES = (
    Reference("acts", "queue_engine/vocabulary/acts/README.md", act_kinds.acts),
    Reference("act kinds", "queue_engine/vocabulary/acts/README.md", act_kinds.act_kinds),
    Reference("engine options", "queue_engine/vocabulary/options/README.md", options.engine_options),
    Reference("console options", "admin_console/README.md", options.console_options),
    Reference("console variables", "admin_console/README.md", options.console_variables),
    Reference("disk kinds", "queue_engine/service/monitoring/README.md", metrics.disk_kinds),
    Reference("commands", "admin_console/management/commands/README.md", commands.commands),
    Reference("alerts", "queue_engine/service/monitoring/README.md", metrics.alerts),
    Reference("metrics", "queue_engine/service/monitoring/README.md", metrics.metrics),
    Reference("pipeline variables", "queue_engine/lake/README.md", options.pipeline_variables_table),
    Reference("HTTP paths", "queue_engine/service/http/REFERENCE.md", http_api.paths),
    Reference("figures", "queue_engine/service/http/REFERENCE.md", figures.figures),
    Reference("HTTP errors", "queue_engine/service/http/REFERENCE.md", http_api.error_words),
)
