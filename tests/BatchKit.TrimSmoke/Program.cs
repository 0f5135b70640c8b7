using BatchKit.TrimSmoke;

await Smoke.BufferAloneAsync();
await Smoke.OwnSocketsAsync();
await Smoke.CancelledSocketAsync();
await Smoke.HostedAsync();
await Smoke.TypedAsync();
await Smoke.HandledAsync();
await Smoke.BadOptionsAsync();
await Smoke.ConfiguredAsync();
Console.WriteLine("The trimmed core works.");
