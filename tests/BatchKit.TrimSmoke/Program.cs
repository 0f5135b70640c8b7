using BatchKit.TrimSmoke;

await Smoke.BufferAloneAsync();
await Smoke.OwnSocketsAsync();
await Smoke.HostedAsync();
await Smoke.BadOptionsAsync();
Console.WriteLine("The trimmed core works.");
