.DEFAULT_GOAL := help
# `make test-extended aider`: the second word is a name, not a target.
ifeq (test-extended,$(firstword $(MAKECMDGOALS)))
NAME ?= $(word 2,$(MAKECMDGOALS))
$(eval $(NAME):;@:)
endif
PY := .venv/bin/python

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1|\2/' | column -t -s '|'

setup:  ## create the environment for tests
	./bootstrap.sh --test --co -q >/dev/null

run:  ## start Hearth on this machine
	./bootstrap.sh --run-local

test:  ## run all tests that this machine permits, cheap ones first
	./bootstrap.sh --test

check:  ## run the rules and the unit tests, without processes and connections (3 minutes)
	./bootstrap.sh --test tests/rules tests/unit

test-extended:  ## run and record the heavy tests that CI runs in rotation; with NAME: those that match it
	./bootstrap.sh --test --extended all $(addprefix -k ,$(NAME))

test-live:  ## test a gateway that runs: HEARTH_TEST_LIVE_URL and HEARTH_TEST_LIVE_KEY_FILE
	./bootstrap.sh --test tests/live

test-backends:  ## compile and record the engine for graphics cards in roots of Debian (an hour)
	./bootstrap.sh --test --extended all tests/integration/expert/test_backends.py

test-engines:  ## compile the other two engines and run the contract tests of all three
	$(PY) -m tests.integration.expert.build_engines
	$(PY) -m pytest tests/integration/expert

lint:  ## check style, types, imports, spelling
	$(PY) -m pytest -q tests/rules/test_static.py

sizes:  ## list long modules and full folders, as warnings
	$(PY) -m tests.rules.sizes

format:  ## format the code
	.venv/bin/ruff check --fix -q . ; .venv/bin/ruff format -q .

proofs:  ## run the tests that prove a requirement and write the table
	./bootstrap.sh --test -m proves --proofs write

docs:  ## write the generated reference pages and dashboards
	$(PY) -m tests.dashboards
	$(PY) -m tests.reference

screenshots:  ## photograph every page of the web page into docs/images/pages
	$(PY) -m tests.screenshots

bench:  ## run the benchmarks and write docs/reference/benchmarks.*
	$(PY) -m tests.benchmarks

lock:  ## resolve the dependencies again into requirements/*.lock
	.tools/uv/bin/uv pip compile -q --upgrade pyproject.toml --extra local --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -o requirements/local.lock
	.tools/uv/bin/uv pip compile -q --upgrade pyproject.toml --extra local --extra whisper --extra cluster --group dev --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -c requirements/local.lock -o requirements/dev.lock
	.tools/uv/bin/uv pip compile -q --upgrade pyproject.toml --extra local --extra cluster --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -c requirements/dev.lock -o requirements/cluster.lock
	.tools/uv/bin/uv pip compile -q --upgrade pyproject.toml --extra gateway --extra launcher --extra agent --extra tracing --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -c requirements/dev.lock -o requirements/host.lock
	.tools/uv/bin/uv pip compile -q --upgrade pyproject.toml --extra speech --extra tracing --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -c requirements/dev.lock -o requirements/speech.lock
	.tools/uv/bin/uv pip compile -q --upgrade pyproject.toml --extra agent --extra voice --extra tracing --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -c requirements/dev.lock -o requirements/agent.lock
	.tools/uv/bin/uv pip compile -q --upgrade pyproject.toml --extra bench --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -c requirements/dev.lock -o tests/benchmarks/engine/requirements.lock
	for client in tests/clients/*/requirements.in; do .tools/uv/bin/uv pip compile -q --upgrade $$client --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -o $${client%in}lock || exit 1; done
	.tools/uv/bin/uv pip compile -q --upgrade tests/binaries/home_assistant/requirements.in --python-version 3.14.8 --python-platform x86_64-manylinux_2_40 --generate-hashes --no-header --no-annotate -o tests/binaries/home_assistant/requirements.lock
	.tools/uv/bin/uv pip compile -q --upgrade pyproject.toml --group engines --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -c requirements/dev.lock -o requirements/engines.lock
	.tools/uv/bin/uv pip compile -q --upgrade --group tools --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -c requirements/dev.lock -o requirements/tools.lock

wheel:  ## build the distribution in dist/
	.tools/uv/bin/uv build --wheel -q

clean:  ## remove generated files
	rm -rf .venv .tools .cache dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

.PHONY: help setup run test test-engines check test-extended test-backends lint sizes format proofs docs screenshots bench lock wheel clean
