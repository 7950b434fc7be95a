import { Card } from "../../components";
import { chooseTheme, useTheme, type ThemeChoice } from "../../lib/theme";
import { zoneName } from "../../lib/times";

const THEMES: readonly { choice: ThemeChoice; name: string; hint: string }[] = [
  { choice: "system", name: "As the system", hint: "Light or dark, as this computer is set." },
  { choice: "light", name: "Light", hint: "Always light." },
  { choice: "dark", name: "Dark", hint: "Always dark." },
];

/** How this browser shows it all; kept in this browser. */
export function AppearanceTab() {
  const { choice: chosen } = useTheme();
  return (
    <Card title="Appearance" hint={`Kept in this browser. Times are in its zone, ${zoneName()}; UTC on hover.`}>
      <fieldset className="choices">
        <legend className="visually-hidden">Theme</legend>
        {THEMES.map(({ choice, name, hint }) => (
          <label key={choice} className="choice">
            <input type="radio" name="theme" checked={choice === chosen} onChange={() => chooseTheme(choice)} />
            <span>
              <span className="choice-name">{name}</span>
              <span className="choice-hint">{hint}</span>
            </span>
          </label>
        ))}
      </fieldset>
    </Card>
  );
}
