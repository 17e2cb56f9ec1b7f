"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const make = (tag, name, text) => {
    const one = document.createElement(tag);
    if (name) one.className = name;
    if (text !== undefined) one.textContent = text;
    return one;
  };
  const outcome = new Map(data.outcomes.map(([letter, word, icon, style, brief], rank) => [letter, { word, icon, style, brief, rank }]));
  const FAILING = new Set("CTEVek");
  const OPEN = new Set("iwo");

  // The two axes: targets by library, laws by family.
  const axis = (names, groups, noun) => {
    const order = [...new Set(groups)];
    const members = new Map(order.map((group) => [group, []]));
    groups.forEach((group, index) => members.get(group).push(index));
    return { names, groups, order, members, noun, open: new Set() };
  };
  const targets = axis(data.targets.map((one) => one.name), data.targets.map((one) => one.group), "target");
  const laws = axis(data.laws, data.laws.map((law) => law.split("/")[0]), "law");
  const few = data.targets.length <= 3;
  const state = { words: "", show: "all", sort: "given", turned: few, at: [0, 0], chosen: null };
  if (few) { for (const group of targets.order) targets.open.add(group); }

  const letterAt = (target, law) => data.targets[target].letters[law];
  const tally = (some, others) => {
    const counts = new Map();
    for (const target of some) {
      const row = data.targets[target].letters;
      for (const law of others) { const letter = row[law]; counts.set(letter, (counts.get(letter) || 0) + 1); }
    }
    return counts;
  };
  const everyLaw = data.laws.map((_, index) => index);
  const countOf = (target, set, columns) => {
    let count = 0;
    const row = data.targets[target].letters;
    for (const law of columns) if (set.has(row[law])) count += 1;
    return count;
  };

  // Filter: every word is in the name of a target, or in that of a law.
  const matching = () => {
    const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
    let rows = data.targets.map((_, index) => index);
    let columns = everyLaw;
    for (const word of words) {
      const some = rows.filter((row) => targets.names[row].toLowerCase().includes(word));
      const others = columns.filter((column) => laws.names[column].toLowerCase().includes(word));
      // A word of both narrows what it leaves fewer of.
      if (some.length && (!others.length || some.length / rows.length <= others.length / columns.length)) rows = some;
      else columns = others;
    }
    if (state.show !== "all") {
      const wanted = state.show === "fail" ? FAILING : new Set(state.show);
      rows = rows.filter((row) => countOf(row, wanted, columns));
    }
    const filtered = words.length > 0 || state.show !== "all";
    if (filtered) {  // laws about none of what is left would be columns of dashes
      const about = columns.filter((law) => rows.some((row) => !"-.".includes(letterAt(row, law))));
      if (about.length) columns = about;
    }
    return { rows, columns, filtered: words.length > 0 };
  };
  const sorted = (rows, columns) => {
    const by = {
      name: (a, b) => targets.names[a].localeCompare(targets.names[b]),
      fail: (a, b) => countOf(b, FAILING, columns) - countOf(a, FAILING, columns) || a - b,
      open: (a, b) => countOf(b, OPEN, columns) - countOf(a, OPEN, columns) || a - b,
    }[state.sort];
    return by ? [...rows].sort(by) : rows;
  };
  const lines = (side, chosen, unfold) => {
    const groups = new Map();
    for (const index of chosen) {
      const group = side.groups[index];
      if (!groups.has(group)) groups.set(group, []);
      groups.get(group).push(index);
    }
    const found = [];
    for (const [group, members] of groups) {
      const open = unfold || side.open.has(group);
      found.push({ group, members, open, head: true });
      if (open) for (const index of members) found.push({ group, members: [index], index });
    }
    return found;
  };

  let view = null;
  const laid = () => {
    const { rows, columns, filtered } = matching();
    const down = state.turned ? laws : targets;
    const over = state.turned ? targets : laws;
    const some = state.turned ? columns : sorted(rows, columns);
    const others = state.turned ? sorted(rows, columns) : columns;
    const tall = lines(down, some, filtered);
    const wide = lines(over, others, filtered && others.length <= 40)
      .filter((line) => !(line.head && line.open));
    view = { tall, wide, down, over, rows, columns, words: state.turned && others.length <= 3 };
    state.at[0] = Math.min(state.at[0], tall.length - 1);
    state.at[1] = Math.min(state.at[1], wide.length);
  };

  const grid = $("grid");
  $("tools").hidden = false;
  grid.hidden = false;
  $("plain").hidden = true;
  const HEIGHT = 25;
  const describe = (counts) => [...counts].filter(([letter]) => outcome.has(letter))
    .sort((a, b) => outcome.get(a[0]).rank - outcome.get(b[0]).rank)
    .map(([letter, count]) => `${count.toLocaleString("en").replaceAll(",", "\u202f")} ${outcome.get(letter).brief}`).join(", ") || "nothing";
  const pairOf = (line, column) => {
    const t = state.turned ? column : line, l = state.turned ? line : column;
    return { targets: t.members, laws: l.members, target: t.index, law: l.index };
  };
  const details = (target, law) => {
    const row = data.targets[target], letter = row.letters[law];
    if (letter === "h") {
      if (!row.held) return "";
      if (!row.parts) row.parts = row.held.split(" ");
      let place = -1;
      if (!row.places) {
        row.places = new Map();
        for (let k = 0; k < row.letters.length; k += 1) if (row.letters[k] === "h") row.places.set(k, (place += 1));
      }
      const [points, size] = (row.parts[row.places.get(law)] || "").split("/");
      if (!points) return "";
      const closest = size ? `; the closest had ${Number((100 * 10 ** Number(size)).toPrecision(2))} % of what is allowed` : "";
      return `${points} points${closest}`;
    }
    for (const [number, spans] of Object.entries(row.why)) {
      for (const span of spans.split(",")) {
        const [first, last = first] = span.split("-").map(Number);
        if (law >= first && law <= last) return data.reasons[number];
      }
    }
    return "";
  };
  const cellOf = (line, column, r, c) => {
    const pair = pairOf(line, column);
    const cell = make("td");
    if (pair.target !== undefined && pair.law !== undefined) {
      const one = outcome.get(letterAt(pair.target, pair.law));
      if (one) {
        cell.className = one.style;
        if (view.words) {
          cell.classList.add("words");
          cell.append(make("b", "", one.icon), one.style === "explained" ? one.brief : one.word.split(":")[0], make("span", "", details(pair.target, pair.law)));
        } else cell.textContent = one.icon;
        cell.setAttribute("aria-label", `${targets.names[pair.target]}, ${laws.names[pair.law]}: ${one.word}`);
        cell.title = `${targets.names[pair.target]}\n${laws.names[pair.law]}: ${one.word}`;
      }
    } else {
      const counts = tally(pair.targets, pair.laws);
      const present = [...counts.keys()].filter((letter) => outcome.has(letter))
        .sort((a, b) => outcome.get(a).rank - outcome.get(b).rank);
      if (present.length) {
        const worst = outcome.get(present[0]);
        cell.className = worst.style;
        // What fails comes as a few numbers, broken checks apart from violations; else the gravest.
        const failing = ["broken", "violated", "explained", "known"].map((style) => present.filter((letter) => outcome.get(letter).style === style)).filter((some) => some.length);
        const listed = (failing.length ? failing.slice(0, 2) : [[present[0]]]).map((some) => `${outcome.get(some[0]).icon}\u2009${some.reduce((sum, letter) => sum + counts.get(letter), 0)}`);
        cell.textContent = worst.style === "idle" ? worst.icon : listed.join("\u2002");
        cell.title = describe(counts);
        cell.setAttribute("aria-label", describe(counts));
      }
    }
    place(cell, r, c);
    return cell;
  };
  const place = (cell, r, c) => {
    cell.dataset.at = `${r},${c}`;
    cell.tabIndex = state.at[0] === r && state.at[1] === c ? 0 : -1;
  };

  const headers = () => {
    const head = make("thead");
    const first = make("tr"), second = make("tr", "names");
    const corner = make("th", "side", `${view.tall.filter((line) => !line.head).length || view.tall.length} rows`);
    corner.textContent = state.turned ? "laws \\ targets" : "targets \\ laws";
    corner.scope = "col";
    first.append(corner);
    second.append(make("th", "side"));
    let named = false, k = 0;
    while (k < view.wide.length) {
      const line = view.wide[k];
      let span = 1;
      while (!line.head && k + span < view.wide.length && !view.wide[k + span].head && view.wide[k + span].group === line.group) span += 1;
      const cell = make("th", line.head ? "group" : "group open", line.group);
      cell.colSpan = span;
      cell.scope = "colgroup";
      cell.title = `${line.group}: ${view.over.members.get(line.group).length} ${view.over.noun}s`;
      cell.setAttribute("aria-expanded", String(!line.head));
      cell.dataset.fold = line.group;
      place(cell, -1, k + 1);
      first.append(cell);
      for (let j = 0; j < span; j += 1) {
        const name = make("th");
        const one = view.wide[k + j];
        if (one.index !== undefined) {
          named = true;
          const full = view.over.names[one.index];
          const short = full.startsWith(`${one.group}/`) || full.startsWith(`${one.group}:`) ? full.slice(one.group.length + 1) : full;
          const text = make("span", "", short.length > 30 ? `${short.slice(0, 29)}…` : short);
          name.append(text);
          name.title = full;
          name.scope = "col";
        }
        second.append(name);
      }
      k += span;
    }
    head.append(first);
    if (named && !view.words) head.append(second);
    const longest = Math.max(0, ...view.wide.map((one) => one.index === undefined ? 0 : Math.min(30, view.over.names[one.index].length - one.group.length)));
    grid.style.setProperty("--tall", named && !view.words ? `${Math.round(20 + 6.4 * longest)}px` : "0px");
    return head;
  };
  const columnsOf = () => {
    const group = document.createDocumentFragment();
    const narrow = window.matchMedia("(max-width: 46rem)").matches;
    const side = make("col");
    const longest = Math.max(...view.tall.map((line) => line.head ? 1.15 * line.group.length + 7 : Math.min(44, 6 + view.down.names[line.index].length - (view.down.names[line.index].startsWith(line.group) ? line.group.length : 0))));
    const room = Math.round(Math.min(narrow ? 176 : 340, Math.max(110, 24 + 7.3 * longest)));
    side.style.width = `${room}px`;
    grid.style.setProperty("--side", `${room}px`);
    group.append(side);
    for (const line of view.wide) {
      const col = make("col");
      const whole = Math.max(300, (grid.clientWidth - room - 18) / view.wide.length);
      const leaf = view.tall.some((one) => one.head && !one.open) ? "46px" : "34px";
      col.style.width = view.words ? `${whole}px` : line.head ? `${Math.max(64, 19 + 6.9 * line.group.length)}px` : leaf;
      group.append(col);
    }
    const all = make("colgroup");
    all.append(group);
    return all;
  };
  const rowOf = (line, r) => {
    const row = make("tr", line.head ? "group" : "");
    row.setAttribute("aria-rowindex", String(r + 2));
    const side = make("th", line.head ? `side group${line.open ? " open" : ""}` : "side item");
    side.scope = "row";
    const name = line.head ? line.group : view.down.names[line.index];
    const short = line.head ? name : name.startsWith(`${line.group}/`) || name.startsWith(`${line.group}:`) ? name.slice(line.group.length + 1) : name;
    side.textContent = short;
    side.title = line.head ? `${name}: ${line.members.length} ${view.down.noun}${line.members.length === 1 ? "" : "s"}` : name;
    if (line.head) {
      side.append(make("span", "n", `  ${line.members.length}`));
      side.setAttribute("aria-expanded", String(Boolean(line.open)));
    }
    place(side, r, 0);
    row.append(side);
    view.wide.forEach((column, c) => row.append(cellOf(line, column, r, c + 1)));
    return row;
  };
  let drawn = [0, 0], body = null;
  const visible = () => {
    const first = Math.max(0, Math.floor(grid.scrollTop / HEIGHT) - 12);
    const last = Math.min(view.tall.length, Math.ceil((grid.scrollTop + (grid.clientHeight || 600)) / HEIGHT) + 12);
    return [first, last];
  };
  const spacer = (rows) => {
    const row = make("tr");
    const cell = make("td");
    cell.colSpan = view.wide.length + 1;
    cell.style.height = `${rows * HEIGHT}px`;
    cell.style.borderBottom = "0";
    row.setAttribute("aria-hidden", "true");
    row.append(cell);
    return row;
  };
  const fill = () => {
    const [first, last] = visible();
    drawn = [first, last];
    const rows = document.createDocumentFragment();
    if (first) rows.append(spacer(first));
    for (let r = first; r < last; r += 1) rows.append(rowOf(view.tall[r], r));
    if (last < view.tall.length) rows.append(spacer(view.tall.length - last));
    body.replaceChildren(rows);
  };
  const render = (keep) => {
    const focused = grid.contains(document.activeElement);
    laid();
    const left = grid.scrollLeft, top = grid.scrollTop;
    const table = make("table");
    table.setAttribute("role", "grid");
    table.setAttribute("aria-label", "Outcomes by target and law");
    table.setAttribute("aria-rowcount", String(view.tall.length + 1));
    body = make("tbody");
    table.append(columnsOf(), headers(), body);
    grid.replaceChildren(table);
    fill();
    if (keep) { grid.scrollLeft = left; grid.scrollTop = top; fill(); } else { grid.scrollTop = 0; fill(); }
    const { rows, columns } = view;
    $("count").textContent = rows.length && columns.length
      ? `${rows.length} of ${data.targets.length} targets, ${columns.length} of ${data.laws.length} laws: ${describe(tally(rows, columns))}.`
      : "Nothing matches; shorten the filter.";
    if (focused) focus();
  };
  const focus = () => {
    const [r] = state.at;
    if (r >= 0 && (r < drawn[0] + 1 || r >= drawn[1] - 1)) {
      grid.scrollTop = Math.max(0, r * HEIGHT - grid.clientHeight / 2);
      fill();
    }
    for (const old of grid.querySelectorAll('[tabindex="0"]')) old.tabIndex = -1;
    const cell = grid.querySelector(`[data-at="${state.at.join(",")}"]`);
    if (!cell) return;
    cell.tabIndex = 0;
    cell.focus({ preventScroll: true });
    const head = grid.querySelector("thead").offsetHeight, side = grid.querySelector(".side").offsetWidth;
    const box = cell.getBoundingClientRect(), frame = grid.getBoundingClientRect();
    if (state.at[0] >= 0) {
      if (box.top < frame.top + head) grid.scrollTop -= frame.top + head - box.top;
      else if (box.bottom > frame.bottom - 16) grid.scrollTop += box.bottom - frame.bottom + 16;
    }
    if (state.at[1] > 0) {
      if (box.left < frame.left + side) grid.scrollLeft -= frame.left + side - box.left;
      else if (box.right > frame.right - 16) grid.scrollLeft += box.right - frame.right + 16;
    }
  };
  const toggle = (side, group) => {
    if (side.open.has(group)) side.open.delete(group); else side.open.add(group);
    render(true);
  };

  // Details of one cell.
  const pairBox = $("pair");
  const close = () => { pairBox.hidden = true; pairBox.replaceChildren(); state.chosen = null; };
  const show = (line, column) => {
    const pair = pairOf(line, column);
    pairBox.replaceChildren();
    const head = make("p");
    if (pair.target === undefined || pair.law === undefined) {
      const many = pair.targets.length === 1 ? targets.names[pair.targets[0]] : `${(state.turned ? column : line).group}, ${pair.targets.length} targets`;
      const which = pair.laws.length === 1 ? laws.names[pair.laws[0]] : `${(state.turned ? line : column).group}, ${pair.laws.length} laws`;
      head.append(make("code", "", many), " × ", make("code", "", which));
      pairBox.append(head, make("p", "", describe(tally(pair.targets, pair.laws))));
    } else {
      const one = outcome.get(letterAt(pair.target, pair.law));
      head.append(make("span", `cell ${one ? one.style : "idle"}`, one ? one.icon : ""), make("code", "", laws.names[pair.law]), " in ", make("code", "", targets.names[pair.target]));
      const why = details(pair.target, pair.law);
      pairBox.append(head, make("p", "", `${one ? one.word : "not in this report"}${why ? `: ${why}` : ""}`));
      const card = data.cards[`${pair.target},${pair.law}`];
      if (card) {
        const link = make("a", "", `The failure ${card.split("-")[0]}`);
        link.href = `#${card}`;
        const last = make("p");
        last.append(link);
        pairBox.append(last);
        state.chosen = card;
      } else state.chosen = null;
    }
    pairBox.hidden = false;
  };
  const act = (cell, again) => {
    const [r, c] = cell.dataset.at.split(",").map(Number);
    if (r < 0) return toggle(view.over, cell.dataset.fold);
    const line = view.tall[r];
    if (c === 0) { if (line.head) toggle(view.down, line.group); return undefined; }
    const column = view.wide[c - 1];
    const { target, law } = pairOf(line, column);
    if (again && !pairBox.hidden && target !== undefined && law !== undefined && state.chosen === data.cards[`${target},${law}`] && state.chosen) {
      window.location.hash = state.chosen;
      return undefined;
    }
    return show(line, column);
  };
  grid.addEventListener("click", (event) => {
    const cell = event.target.closest("[data-at]");
    if (!cell) return;
    state.at = cell.dataset.at.split(",").map(Number);
    focus();
    act(grid.querySelector(`[data-at="${state.at.join(",")}"]`) || cell, false);
  });
  grid.addEventListener("keydown", (event) => {
    const step = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1], PageDown: [20, 0], PageUp: [-20, 0] }[event.key];
    const cell = event.target.closest("[data-at]");
    if (!cell) return;
    if (step) {
      const least = state.at[1] > 0 || state.at[0] < 0 ? -1 : 0;
      let r = Math.min(view.tall.length - 1, Math.max(step[0] === -1 ? least : 0, state.at[0] + step[0]));
      const c = Math.min(view.wide.length, Math.max(0, state.at[1] + step[1]));
      if (state.at[0] < 0 && !step[0]) r = -1;
      state.at = [r, r < 0 ? Math.max(1, c) : c];
      if (r < 0) {  // a heading may span columns
        const all = [...grid.querySelectorAll('[data-at^="-1,"]')].map((one) => Number(one.dataset.at.split(",")[1]));
        const fits = step[1] > 0 ? all.find((k) => k >= c) : all.filter((k) => k <= Math.max(1, c)).pop();
        if (fits !== undefined) state.at[1] = fits;
      }
      focus();
    } else if (event.key === "Home" || event.key === "End") {
      state.at = event.ctrlKey ? [event.key === "Home" ? 0 : view.tall.length - 1, state.at[1]] : [state.at[0], event.key === "Home" ? 0 : view.wide.length];
      focus();
    } else if (event.key === "Enter" || event.key === " ") act(cell, true);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  });
  pairBox.addEventListener("keydown", (event) => { if (event.key === "Escape") { close(); focus(); } });
  let waiting = false;
  grid.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      const [first, last] = visible();
      if (first === drawn[0] && last === drawn[1]) return;
      const focused = grid.contains(document.activeElement);
      fill();
      if (focused) { const cell = grid.querySelector('[tabindex="0"]'); if (cell) cell.focus({ preventScroll: true }); }
    });
  });
  const listen = (id, event, act_) => $(id).addEventListener(event, act_);
  listen("filter", "input", (event) => { state.words = event.target.value; close(); render(false); });
  listen("filter", "keydown", (event) => { if (event.key === "Escape") { event.target.value = ""; state.words = ""; render(false); } });
  listen("show", "change", (event) => { state.show = event.target.value; close(); render(false); });
  listen("sort", "change", (event) => { state.sort = event.target.value; render(false); });
  listen("unfold", "click", () => { for (const side of [targets, laws]) side.order.forEach((group) => side.open.add(group)); render(false); });
  listen("fold", "click", () => { for (const side of [targets, laws]) side.open.clear(); if (few) targets.order.forEach((group) => targets.open.add(group)); render(false); });
  listen("turn", "click", (event) => { state.turned = !state.turned; state.at = [0, 0]; event.currentTarget.setAttribute("aria-pressed", String(state.turned)); close(); render(false); });
  $("turn").setAttribute("aria-pressed", String(state.turned));

  // The cards: filter, order, links.
  const holder = $("cards");
  if (holder) {
    const original = [...holder.children];
    const cards = original.filter((one) => one.classList.contains("card"));
    const arrange = () => {
      const how = $("arrange").value;
      holder.classList.toggle("flat", how !== "target");
      if (how === "target") holder.replaceChildren(...original);
      else if (how === "size") holder.replaceChildren(...[...cards].sort((a, b) => Number(b.dataset.size) - Number(a.dataset.size)));
      else {
        const byLaw = [...cards].sort((a, b) => a.dataset.law.localeCompare(b.dataset.law) || a.dataset.target.localeCompare(b.dataset.target));
        const all = [];
        let last = "";
        for (const card of byLaw) {
          if (card.dataset.law !== last) {
            last = card.dataset.law;
            const head = make("h3", "target");
            head.append(make("code", "", last));
            all.push(head);
          }
          all.push(card);
        }
        holder.replaceChildren(...all);
      }
      narrow();
    };
    const narrow = () => {
      const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const card of cards) {
        const text = `${card.id} ${card.dataset.law} ${card.dataset.target}`.toLowerCase();
        card.hidden = !words.every((word) => text.includes(word));
        count += card.hidden ? 0 : 1;
      }
      let head = null, some = false;
      for (const one of [...holder.children, null]) {
        if (one === null || one.tagName === "H3") {
          if (head) head.hidden = !some;
          head = one;
          some = false;
        } else if (!one.hidden) some = true;
      }
      $("found").textContent = words.length ? `${count} of ${cards.length}` : "";
    };
    listen("find", "input", narrow);
    listen("find", "keydown", (event) => { if (event.key === "Escape") { event.target.value = ""; narrow(); } });
    listen("arrange", "change", arrange);
    listen("open-all", "click", () => cards.forEach((card) => { if (!card.hidden) card.open = true; }));
    listen("close-all", "click", () => cards.forEach((card) => { card.open = false; }));
    holder.addEventListener("click", (event) => {
      const name = event.target.closest("a.name");
      if (name) event.stopPropagation();
    });
    holder.addEventListener("keydown", (event) => {
      const card = event.target.closest(".card");
      if (event.key === "Escape" && card && card.open) {
        card.open = false;
        card.querySelector("summary").focus();
      }
    });
    $("order").hidden = false;
    let opened = [];
    window.addEventListener("beforeprint", () => {
      opened = cards.length <= 40 ? cards.filter((card) => !card.open) : [];
      opened.forEach((card) => { card.open = true; });
    });
    window.addEventListener("afterprint", () => opened.forEach((card) => { card.open = false; }));
  }
  const follow = () => {
    let name = "";
    try { name = decodeURIComponent(window.location.hash.slice(1)); } catch { return; }
    if (!name) return;
    const one = $(name) || $(name.toUpperCase());
    if (!one) return;
    if (one.hidden && $("find")) { $("find").value = ""; $("find").dispatchEvent(new Event("input")); }
    for (let up = one; up; up = up.parentElement) if (up.tagName === "DETAILS") up.open = true;
    one.scrollIntoView();
    const summary = one.querySelector("summary");
    if (summary) summary.focus({ preventScroll: true });
  };
  window.addEventListener("hashchange", follow);

  if (few && !laws.open.size) {
    for (const family of laws.order) {
      const counts = tally(data.targets.map((_, index) => index), laws.members.get(family));
      if ([...counts.keys()].some((letter) => FAILING.has(letter) || letter === "a" || letter === "i")) laws.open.add(family);
    }
  }
  render(false);
  follow();
})();
