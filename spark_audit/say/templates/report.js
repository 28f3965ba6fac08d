// Search, order, copies and printing. Without it the page says the same; it adds nothing from outside.
"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const requests = all("li.request").map((item) => ({
    item,
    text: item.textContent.toLowerCase(),
    id: item.querySelector(".request-id").textContent,
    topic: item.querySelector(".request-topic").textContent,
    since: Number(item.dataset.since || Infinity),
  }));
  const cards = all("details.finding");
  const tools = document.getElementById("tools");
  const search = document.getElementById("search");
  const order = document.getElementById("order");
  const hits = document.getElementById("hits");

  const find = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const one of requests) {
      const fits = words.every((word) => one.text.includes(word));
      one.item.hidden = !fits;
      found += fits ? 1 : 0;
    }
    for (const card of cards) {
      const list = card.querySelector("ul.requests");
      const fits = list !== null && list.querySelector("li.request:not([hidden])") !== null;
      card.classList.toggle("without-hit", words.length > 0 && !fits);
      if (words.length > 0 && fits) card.open = true;
    }
    document.documentElement.classList.toggle("searching", words.length > 0);
    hits.textContent = words.length > 0 ? `${found} of ${requests.length} shown on this page` : "";
  };

  const compare = (one, other) => (one < other ? -1 : one > other ? 1 : 0);
  const orders = {
    oldest: (one, other) => compare(one.since, other.since),
    newest: (one, other) => compare(other.since, one.since),
    id: (one, other) => compare(one.id, other.id),
    topic: (one, other) => compare(one.topic, other.topic) || compare(one.since, other.since),
  };
  const sort = () => {
    const sorted = [...requests].sort(orders[order.value]);
    // Moving an item to the end of its own list, in order, sorts each list.
    for (const one of sorted) one.item.parentNode.append(one.item);
  };

  const copied = async (button) => {
    const code = button.parentNode.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
  };

  // A link to a finding opens it.
  const open = () => {
    const card = document.getElementById(location.hash.slice(1));
    if (card !== null && card.matches("details")) card.open = true;
  };

  document.documentElement.classList.add("scripted");
  if (tools !== null) {
    tools.hidden = false;
    search.addEventListener("input", find);
    order.addEventListener("change", sort);
    if (search.value) find();
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.copy");
    if (button !== null) copied(button);
    const all = event.target.closest("button.all");
    if (all !== null) all.previousElementSibling.classList.remove("short");
  });
  addEventListener("hashchange", open);
  open();
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = cards.filter((card) => !card.open);
    for (const card of closed) card.open = true;
  });
  addEventListener("afterprint", () => {
    for (const card of closed) card.open = false;
  });
})();
