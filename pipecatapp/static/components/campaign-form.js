import { h } from "../dom.js"

const METHODS = ["pareto", "thompson", "tournament", "novelty", "map-elites", "clade", "weighted", "random"]

/** The fields of a new campaign: {element, values(), refuse(words)}. `prompts` are those that can be improved. */
export function campaignForm(prompts) {
  const prompt = h("select", { id: "campaign-prompt", testid: "campaign-prompt", autofocus: true }, prompts.map(({ id }) => h("option", { value: id }, id)))
  const method = h("select", { id: "campaign-method", testid: "campaign-method" }, METHODS.map((each) => h("option", { value: each }, each)))
  const number = (name, value, min) => h("input", { type: "number", id: `campaign-${name}`, testid: `campaign-${name}`, value, min, step: 1, required: true, inputmode: "numeric", "aria-describedby": `campaign-${name}-hint` })
  const [candidates, budget, seed] = [number("candidates", 30, 1), number("budget", 1_000_000, 1), number("seed", 0, 0)]
  const model = h("input", { type: "text", id: "campaign-model", testid: "campaign-model", maxlength: 200, autocomplete: "off", placeholder: "none", "aria-describedby": "campaign-model-hint" })
  const fault = h("p", { class: "fault", role: "alert", hidden: true, testid: "campaign-fault" })
  const field = (name, label, control, hint) => h("div", { class: "field" }, h("label", { for: `campaign-${name}` }, label), control, h("p", { class: "hint", id: `campaign-${name}-hint` }, hint))
  const element = h(
    "div",
    { class: "dialog-content" },
    field("prompt", "Prompt", prompt, "Its cases are the files in evolution/cases of the state directory."),
    field("budget", "Budget in tokens", budget, "Of all runs and changes; the campaign ends when it is used up."),
    field("candidates", "Candidates at most", candidates, "Each is measured on the search cases."),
    field("method", "Selection method", method, "How the parent of the next candidate is selected."),
    field("model", "Model that proposes changes", model, "Without one the changes are mechanical: drop, move or shorten a line, or add an example."),
    field("seed", "Seed", seed, "Of all random choices."),
    fault,
  )
  const values = () => ({ prompt: prompt.value, method: method.value, candidates: Number(candidates.value), budget: Number(budget.value), seed: Number(seed.value), model: model.value.trim() })

  function refuse(words) {
    fault.textContent = words
    fault.hidden = !words
  }

  return { element, values, refuse }
}

/** The upper bounds of a campaign, as a sentence; as `hearth evolve run --dry-run` prints them. */
export function costText({ search_runs, gate_runs, tokens_per_run, measured, tokens, budget }) {
  const source = measured ? "the mean of earlier runs" : "an estimate, without earlier runs"
  return `At most ${search_runs} runs of the search and ${gate_runs} of the gate. ${tokens_per_run} tokens a run (${source}): at most ${tokens} tokens; the budget is ${budget}.`
}
