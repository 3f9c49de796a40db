import { h } from "../dom.js"

const LEVELS = [0.9, 0.6, 0.3, 0.1] // probabilities from which on a token counts as sure, likely, unsure, doubtful; less is a guess

/** How sure a model was: 0 is sure, 4 is a guess. */
const level = (probability) => LEVELS.findIndex((least) => probability >= least) + 1 || LEVELS.length + 1

const percent = (probability) => (probability < 0.01 ? "under 1 %" : `${Math.round(probability * 100)} %`)

/** White space is shown, because it is a part of tokens. */
const shown = (token) => token.replaceAll("\n", "↵").replace(/^ | $/g, "␣") || "∅"

/**
 * The tokens of an answer as buttons, darker and more strongly underlined the less sure the model was. A button opens
 * what the model could have written there; `go(position, token)` is called with the alternative that a person chose.
 */
export function tokenText({ prefix, tokens }, go) {
  const detail = h("div", { class: "token-detail", testid: "token-detail", "aria-live": "polite" })
  const buttons = tokens.map((token, position) => h("button", { type: "button", class: "token", dataset: { level: level(token.probability) }, "aria-label": `${shown(token.token)}, ${percent(token.probability)}`, title: percent(token.probability), tabindex: position ? "-1" : "0", testid: "token", onclick: () => open(position) }, token.token))
  const text = h("p", { class: "token-text", role: "group", "aria-label": "Tokens. The arrow keys go from one to the next.", onkeydown: move }, prefix && h("span", { class: "token-prefix" }, prefix), buttons)

  function move(event) {
    const at = buttons.indexOf(event.target)
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 }[event.key]
    if (at < 0 || to === undefined || !buttons[to]) return
    event.preventDefault()
    buttons[at].tabIndex = -1
    buttons[to].tabIndex = 0
    buttons[to].focus()
  }

  function open(position) {
    for (const [at, button] of buttons.entries()) button.setAttribute("aria-expanded", String(at === position))
    const { token, probability, alternatives } = tokens[position]
    const others = alternatives.filter((each) => each.token !== token)
    const rows = others.map((each) => h("li", {}, h("button", { type: "button", class: "button small", testid: "token-alternative", onclick: () => go(position, each.token) }, `Continue with “${shown(each.token)}”`), h("span", { class: "fine" }, percent(each.probability))))
    detail.replaceChildren(h("p", {}, h("code", {}, shown(token)), ` was chosen with ${percent(probability)}.`), rows.length ? h("ul", { class: "token-alternatives" }, rows) : h("p", { class: "fine" }, "No other token was listed."))
  }

  return h("div", {}, text, detail)
}

/** What the colours mean. */
export const tokenLegend = () => h("p", { class: "fine token-legend" }, "Probability of a token: ", ["90 % and more", "60 %", "30 %", "10 %", "less"].map((words, i) => [h("span", { class: "token", dataset: { level: i + 1 } }, words), " "]))
