import { h } from "../dom.js"
import { duration } from "../format.js"

const STAGES = {
  endpointing: "Sure that you stopped",
  hearing: "Speech to text",
  turn: "Sure that you finished",
  model: "First word of the answer",
  clause: "First clause",
  speaking: "Text to speech",
  sending: "On its way",
}

/** <turn-times>: where the time went from the end of speech to the first sound, as a bar and as words. `show({stage: seconds})`. */
class TurnTimes extends HTMLElement {
  show(stages) {
    const parts = Object.keys(STAGES).filter((stage) => stage in stages)
    const whole = parts.reduce((sum, stage) => sum + stages[stage], 0)
    const bar = h("div", { class: "times-bar", "aria-hidden": "true" }, parts.map((stage) => h("span", { dataset: { stage } })))
    for (const piece of bar.children) piece.style.flexGrow = stages[piece.dataset.stage]
    const row = (name, seconds, stage) => h("div", { dataset: { stage } }, h("dt", {}, name), h("dd", {}, duration(seconds)))
    const rows = parts.map((stage) => row(STAGES[stage], stages[stage], stage))
    this.replaceChildren(bar, h("dl", { class: "times-list", testid: "times" }, rows, row("From voice to voice", whole, "whole")))
  }
}

customElements.define("turn-times", TurnTimes)
