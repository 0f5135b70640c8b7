using BatchKit.TestServers.Processes;
using Microsoft.Playwright;

[assembly: AssemblyFixture(typeof(BatchKit.IntegrationTests.Mud.Chromium))]

namespace BatchKit.IntegrationTests.Mud;

/// <summary>The browser that all tests share, without a window; started by the first that asks.</summary>
public sealed class Chromium : IAsyncLifetime
{
    private const string Program = "chromium";
    private const float StartMilliseconds = 120_000;

    private readonly Lock _gate = new();
    private Task<IBrowser>? _browser;
    private IPlaywright? _playwright;

    public ValueTask InitializeAsync() => ValueTask.CompletedTask;

    public Task<IBrowser> GetAsync()
    {
        RequiredServer.SkipWhen(InstalledProgram.Find(Program) is null ? $"The program {Program} is not installed (apt-get install {Program})." : null);
        lock (_gate)
            return _browser ??= StartAsync(InstalledProgram.Find(Program)!);
    }

    public async ValueTask DisposeAsync()
    {
        if (_browser is not null)
            await (await _browser).DisposeAsync();
        _playwright?.Dispose();
    }

    private async Task<IBrowser> StartAsync(string path)
    {
        _playwright = await Playwright.CreateAsync();

        // Chromium's sandbox refuses root, and a container's kernel may refuse the sandbox.
        return await _playwright.Chromium.LaunchAsync(new() { ExecutablePath = path, Args = ["--no-sandbox"], Timeout = StartMilliseconds });
    }
}
