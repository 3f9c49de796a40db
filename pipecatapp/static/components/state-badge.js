import { STATE_WORDS } from "../format.js"
import { stateIcon } from "../icons.js"

/** <state-badge state="running">: a state as icon and word. `words` replaces the word ("Healthy"). */
class StateBadge extends HTMLElement {
  static observedAttributes = ["state", "words"]

  connectedCallback() {
    this.#show()
  }

  attributeChangedCallback() {
    if (this.isConnected) this.#show()
  }

  #show() {
    const state = this.getAttribute("state") ?? "idle"
    if (this.dataset.state !== state) this.dataset.state = state
    this.replaceChildren(stateIcon(state), this.getAttribute("words") ?? STATE_WORDS[state] ?? state)
  }
}

customElements.define("state-badge", StateBadge)
