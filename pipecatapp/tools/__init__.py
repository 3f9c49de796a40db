"""Every tool of the app. A tool that is not in this list does not exist."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pipecatapp.tools.autonomy import check as workflow_check
from pipecatapp.tools.autonomy import digest, guide, recent
from pipecatapp.tools.autonomy import start as run_start
from pipecatapp.tools.browser import act as browser_act
from pipecatapp.tools.browser import find as browser_find
from pipecatapp.tools.browser import open as browser_open
from pipecatapp.tools.browser import read as browser_read
from pipecatapp.tools.browser import shot as browser_shot
from pipecatapp.tools.check import alignment, progress, structure, syntax
from pipecatapp.tools.clock import time, wait
from pipecatapp.tools.cluster import status
from pipecatapp.tools.code import install, run
from pipecatapp.tools.code.approach import approach, outcome
from pipecatapp.tools.code.context import context
from pipecatapp.tools.code.edit import edit
from pipecatapp.tools.code.fix import fix
from pipecatapp.tools.code.language import language
from pipecatapp.tools.code.localise import localise
from pipecatapp.tools.code.map import map as code_map
from pipecatapp.tools.code.memory import project as project_memory
from pipecatapp.tools.code.memory import recall, remember
from pipecatapp.tools.code.symbols import symbols
from pipecatapp.tools.code.testing import run_tests
from pipecatapp.tools.contexts import merge, propose
from pipecatapp.tools.documents import check as document_check
from pipecatapp.tools.documents import pages as document_pages
from pipecatapp.tools.documents import read as document_read
from pipecatapp.tools.documents import review as document_review
from pipecatapp.tools.documents import write as document_write
from pipecatapp.tools.files import delete, listing, read, write
from pipecatapp.tools.fix import texts
from pipecatapp.tools.git import branches, history
from pipecatapp.tools.home import act as home_act
from pipecatapp.tools.images import chart, diagram, make
from pipecatapp.tools.knowledge import search as rag_search
from pipecatapp.tools.knowledge import update as rag_update
from pipecatapp.tools.mcp import save as mcp_save
from pipecatapp.tools.memory import conversation, items, note
from pipecatapp.tools.model import llm, tokens, typed
from pipecatapp.tools.model.evaluation import evaluate
from pipecatapp.tools.people import ask
from pipecatapp.tools.people import note as people_note
from pipecatapp.tools.plain import value
from pipecatapp.tools.plan import evidence, expand, revise, todo
from pipecatapp.tools.plan import steps as plan_steps
from pipecatapp.tools.ports import delivery, message, tracker
from pipecatapp.tools.project import docs, entry, facts
from pipecatapp.tools.project import tree as project_tree
from pipecatapp.tools.prompts import find as prompt_find
from pipecatapp.tools.search import files as search_files
from pipecatapp.tools.search import web as search_web
from pipecatapp.tools.speech import hear, say
from pipecatapp.tools.tasks import find as task_find
from pipecatapp.tools.tasks import save as task_save
from pipecatapp.tools.vision import ask as image_ask
from pipecatapp.tools.web import download as http_download
from pipecatapp.tools.web import get as http_get
from pipecatapp.tools.web import request as http_request
from pipecatapp.tools.workspace import deliver, reset, state
from pipecatapp.workflow import Tool

TOOLS: Final[Mapping[str, Tool]] = MappingProxyType(
    {
        tool.name: tool
        for tool in (
            llm.llm,
            typed.typed,
            tokens.tokens,
            tokens.cull,
            evaluate.evaluate,
            value.value,
            texts.fix_json,
            texts.fix_yaml,
            texts.fix_markdown,
            time.now,
            wait.wait,
            ask.ask,
            people_note.note,
            read.read,
            listing.listing,
            write.write,
            delete.delete,
            document_read.read,
            document_write.write,
            document_check.check,
            document_pages.pages,
            document_review.review,
            state.state,
            reset.reset,
            deliver.deliver,
            branches.branch,
            branches.commit,
            branches.merge,
            branches.push,
            history.diff,
            history.log,
            expand.expand,
            revise.revise,
            todo.todo,
            plan_steps.plan_steps,
            evidence.evidence,
            propose.propose,
            merge.merge,
            progress.progress,
            alignment.alignment,
            guide.guide,
            digest.digest,
            recent.recent,
            workflow_check.check,
            run_start.start,
            run_start.start_autonomy,
            tracker.list_issues,
            tracker.show,
            tracker.create,
            tracker.comment,
            tracker.close,
            delivery.status,
            delivery.propose,
            delivery.proposals,
            message.send,
            task_find.find,
            task_save.save,
            facts.facts,
            entry.entry,
            docs.docs,
            project_tree.tree,
            prompt_find.find,
            structure.structure,
            syntax.syntax,
            run.run,
            install.install,
            run_tests.run_tests,
            localise.localise,
            fix.fix,
            edit.edit,
            context.context,
            language.language,
            symbols.symbols,
            code_map.code_map,
            approach.approach,
            outcome.outcome,
            project_memory.memory,
            recall.recall,
            remember.remember,
            http_get.get,
            http_download.download,
            http_request.request,
            search_web.web,
            search_files.files,
            rag_search.search,
            rag_update.update,
            make.make,
            chart.chart,
            diagram.diagram,
            browser_open.open_page,
            browser_read.read,
            browser_find.find,
            browser_act.act,
            browser_shot.shot,
            image_ask.ask,
            say.say,
            hear.hear,
            status.status,
            mcp_save.save,
            home_act.act,
            home_act.confirm,
            note.save,
            note.find,
            conversation.recall,
            items.new,
        )
    }
)
