import "../components/talk-figure.js"
import "../components/talk-transcript.js"
import "../components/turn-times.js"
import { get } from "../api.js"
import { problem } from "../components/notice.js"
import { announce, h } from "../dom.js"
import { duration } from "../format.js"
import { icon } from "../icons.js"
import { Call, mayListen } from "../talk/call.js"
import { insecure } from "../talk/insecure.js"

const STATES = {
  off: "Press the button and speak, or type.",
  waking: "One moment …",
  listening: "I am listening.",
  thinking: "I am thinking …",
  speaking: "I am speaking. Speak over me to stop me.",
  trouble: "Something is wrong.",
}
const MUTED = { listening: "You are muted: I hear nothing.", speaking: "I am speaking. You are muted." }
/** Milliseconds between two moves of the meter and the figure: smooth enough, and the same processor may run the model. */
const MOVE_MS = 50
const ANSWERS = ["thinking", "speaking"]
const READING = { listening: "Type your next sentence.", speaking: "I am speaking." }

/** A conversation by voice: one button, the figure that listens and speaks, and the transcript. */
class TalkPage extends HTMLElement {
  #call = null
  #conversation = undefined
  #authority = null
  #frame = 0
  #moveAt = 0
  #again = true
  #muted = false

  connectedCallback() {
    this.figure = h("talk-figure")
    this.state = h("p", { class: "talk-state", testid: "talk-state" })
    this.note = h("div", { class: "note-slot talk-note" })
    this.start = h("button", { type: "button", class: "button primary talk-start", testid: "talk-start", onclick: this.#toggle })
    this.mute = h("button", { type: "button", class: "button", testid: "talk-mute", "aria-pressed": "false", disabled: true, onclick: this.#mute }, "Mute")
    this.quiet = h("button", { type: "button", class: "button", testid: "talk-quiet", disabled: true, onclick: () => this.#call.send({ type: "quiet" }) }, "Quiet")
    this.meter = h("meter", { min: "0", max: "1", value: 0, "aria-label": "Loudness of the microphone", testid: "talk-meter" })
    this.time = h("output", { testid: "talk-time" }, "–")
    this.times = h("turn-times")
    this.model = this.#picker("model", "Who answers")
    this.voice = this.#picker("voice", "Voice")
    this.transcript = h("talk-transcript", { testid: "talk-transcript" })
    this.field = h("input", { type: "text", maxlength: "4000", placeholder: "Or type here", "aria-label": "Type instead of speaking", testid: "talk-text", autocomplete: "off" })
    this.kept = h("p", { class: "fine", testid: "talk-kept" })
    this.replaceChildren(this.#stage(), this.#words())
    this.#show("off")
    this.#button()
    this.#choices()
  }

  disconnectedCallback() {
    this.#end()
  }

  #stage() {
    const meters = h("dl", { class: "talk-meters" }, h("div", {}, h("dt", {}, "Microphone"), h("dd", {}, this.meter)), h("div", {}, h("dt", {}, "End of speech to first sound"), h("dd", {}, this.time)))
    this.details = h("details", { class: "talk-times", hidden: true }, h("summary", {}, "Where the time went"), this.times)
    return h("section", { class: "talk-stage", "aria-label": "The agent" }, h("h1", { tabindex: "-1" }, "Talk"), this.figure, this.state, h("div", { class: "talk-buttons" }, this.start, this.mute, this.quiet), this.note, meters, this.details)
  }

  #words() {
    const clear = h("button", { type: "button", class: "button", testid: "talk-clear", onclick: this.#clear }, "Clear")
    const head = h("header", { class: "talk-head" }, labelled("Who answers", this.model), labelled("Voice", this.voice), clear)
    const form = h("form", { class: "talk-form", onsubmit: this.#typed }, this.field, h("button", { type: "submit", class: "button", testid: "talk-send" }, "Say"))
    return h("section", { class: "talk-words", "aria-label": "What was said" }, head, this.transcript, form, this.kept)
  }

  #picker(name, label) {
    const choose = () => {
      localStorage.setItem(`hearth.talk.${name}`, this[name].value)
      this.#call?.send({ type: "choose", [name]: this[name].value })
    }
    return h("select", { "aria-label": label, testid: `talk-${name}`, onchange: choose })
  }

  async #choices() {
    try {
      const { models, voices, kept, authority, trouble } = await get("/api/voice")
      fill(this.model, models, "hearth.talk.model")
      fill(this.voice, voices.length ? voices : [{ id: "default", about: "Default" }], "hearth.talk.voice")
      this.#authority = authority
      this.kept.textContent = kept ? "No sound is kept. The words are kept with their runs." : "Nothing is kept: the words go when you leave."
      if (trouble) this.#problem("Voice is not available right now", trouble)
      else if (!mayListen()) this.note.replaceChildren(insecure(authority))
    } catch (error) {
      this.#problem("The voices cannot be read", error.message)
    }
  }

  #toggle = () => {
    const hears = this.#call?.hears
    this.#muted = false
    this.#end()
    if (hears) return undefined
    if (!mayListen()) return this.note.replaceChildren(insecure(this.#authority))
    return this.#begin({ microphone: true })
  }

  async #begin({ microphone }) {
    this.note.replaceChildren()
    this.#show("waking")
    const call = (this.#call = new Call())
    call.addEventListener("told", ({ detail }) => this.#told(detail))
    this.#frame = requestAnimationFrame(this.#move)
    const trouble = await call.open({ conversation: this.#conversation, model: this.model.value || "agent", voice: this.voice.value || "default" }, { microphone, muted: this.#muted })
    if (call !== this.#call) return
    if (trouble) this.#problem("No microphone", trouble)
    this.#button()
  }

  #end() {
    cancelAnimationFrame(this.#frame)
    this.#call?.close()
    this.#call = null
    this.meter.value = this.figure.level = 0
    this.#show("off")
    this.#button()
  }

  #move = (now) => {
    if (now >= this.#moveAt) {
      this.#moveAt = now + MOVE_MS
      this.meter.value = this.#call.listening
      this.figure.level = Math.max(this.#call.listening, this.#call.speaking)
    }
    this.#frame = requestAnimationFrame(this.#move)
  }

  #button() {
    const hears = Boolean(this.#call?.hears)
    this.start.replaceChildren(icon(hears ? "cross" : "talk"), hears ? "Stop talking" : "Start talking")
    this.mute.disabled = !hears
    this.mute.setAttribute("aria-pressed", String(hears && this.#muted))
    this.toggleAttribute("data-muted", hears && this.#muted)
    this.#tell()
  }

  #mute = () => {
    this.#muted = !this.#muted
    this.#call.muted = this.#muted
    this.#button()
  }

  #clear = () => {
    this.transcript.clear()
    this.#conversation = undefined
    this.#call?.send({ type: "clear" })
  }

  #typed = (event) => {
    event.preventDefault()
    const text = this.field.value.trim()
    if (!text) return
    this.field.value = ""
    if (!this.#call) this.#begin({ microphone: false })
    this.transcript.told({ type: "heard", text })
    this.#call.send({ type: "text", text })
  }

  #told(message) {
    this.#HEARD[message.type]?.(message)
    this.transcript.told(message) // The last: what stands above it has its height now, and the end of it is shown.
  }

  #HEARD = {
    ready: ({ conversation }) => {
      this.#conversation = conversation
      this.#again = true
      this.dataset.way = this.#call.way
      this.#show("listening")
    },
    state: ({ state }) => this.#show(state),
    asked: () => this.note.replaceChildren(),
    cleared: ({ conversation }) => (this.#conversation = conversation),
    turn: ({ stages }) => {
      this.time.textContent = duration(Object.values(stages).reduce((sum, seconds) => sum + seconds, 0))
      this.times.show(stages)
      this.details.hidden = false
    },
    busy: ({ text }) => this.#trouble("Everybody is talking", text),
    trouble: ({ text }) => this.#trouble("That did not work", text),
    idle: () => {
      this.#end()
      this.#problem("I have stopped listening", "Nobody said a word for a while, and others may want to talk. Press the button to go on.")
    },
    closed: () => this.#lost(),
  }

  #trouble(title, text) {
    this.#problem(title, text)
    this.#show("trouble")
  }

  /** A line that breaks is taken up once by itself; what was said before goes on. */
  #lost() {
    const { hears } = this.#call
    const told = this.figure.dataset.state === "trouble"
    this.#end()
    if (told) return this.#show("trouble")
    if (!this.#again) return this.#trouble("The line is broken", "Hearth cannot be reached. Is it still running? Press the button to try again.")
    this.#again = false
    return this.#begin({ microphone: hears })
  }

  #show(state) {
    if (state === this.figure.dataset.state && state !== "off") return
    this.figure.state = state
    this.quiet.disabled = !ANSWERS.includes(state)
    this.#tell()
    if (state === "trouble") announce(STATES.trouble)
  }

  /** The state in words; they are others for who cannot be heard. */
  #tell() {
    const { state } = this.figure.dataset
    const others = this.#call && !this.#call.hears ? READING : this.#muted ? MUTED : STATES
    this.state.textContent = others[state] ?? STATES[state]
  }

  #problem(title, text) {
    this.note.replaceChildren(problem(title, text))
  }
}

const labelled = (words, field) => h("label", { class: "talk-choice" }, h("span", { class: "fine" }, words), field)

function fill(select, choices, memory) {
  select.replaceChildren(...choices.map(({ id, about }) => h("option", { value: id }, about)))
  const chosen = localStorage.getItem(memory)
  select.value = choices.some(({ id }) => id === chosen) ? chosen : choices[0].id
}

customElements.define("talk-page", TalkPage)
