// A payment form that cannot pay twice: every way back to this page follows the first submission.
import { follow, forget, known, submit } from "/onceward.js";

const form = document.querySelector("form");
const { action, url, key } = form.dataset;
const [pay, said, again] = ["pay", "said", "again"].map((id) => document.getElementById(id));

const WORDS = {
  SUCCEEDED: "Paid.",
  SKIPPED: "Another payment took the place of this one.",
  IN_DOUBT: "We do not know yet whether you have paid. Do not pay again: we look into it.",
  UNREACHABLE: "The network is away. This page goes on by itself. Do not pay again.",
};

function show(status) {
  const mayRetry = ["FAILED", "EXPIRED"].includes(status.state);
  const why = status.message ? ` (${status.message})` : "";
  say(mayRetry ? `Not paid${why}.` : (WORDS[status.state] ?? "Your payment is under way."), status.state);
  again.hidden = !mayRetry;
}

function say(text, state = "") {
  said.textContent = text;
  said.dataset.state = state;
}

function open(isOpen) {
  for (const one of form.elements) one.disabled = !isOpen;
}

async function toEnd(following) {
  open(false);
  try {
    await following;
  } catch (error) {
    // Refused before anything was taken: the form is as before.
    if (!known(action)) open(true);
    say(known(action) ? `Reload this page to go on (${error.message}).` : `Not taken: ${error.message}.`);
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const amount = form.elements.amount.value;
  toEnd(submit(action, url, { order: action, amount }, { onStatus: show, key }));
});

again.addEventListener("click", () => {
  forget(action);
  again.hidden = true;
  open(true);
  say("");
});

say("");
if (known(action)) toEnd(follow(action, { onStatus: show }));
else open(true);
