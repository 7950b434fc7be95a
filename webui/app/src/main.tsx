import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./App";
import { withoutBase } from "./lib/base";
import { startTheme } from "./lib/theme";
import { routeOf } from "./routes";
import "./styles/index.css";

startTheme();
// While the session is asked for, its page can come along. What fails here fails again, and is told, when it is drawn.
routeOf(withoutBase(location.pathname))
  ?.load()
  .catch(() => undefined);
createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
