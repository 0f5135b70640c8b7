using System.Globalization;
using BatchKit.TestServers.Network;

namespace BatchKit.TestServers.Processes;

/// <summary>A server for tests: one from the environment, or an installed program as a child process with a data folder of its own.</summary>
/// <remarks>Dispose it: that kills the process and deletes its data.</remarks>
public abstract class InstalledServer : IAsyncDisposable
{
    private static readonly TimeSpan StopLimit = TimeSpan.FromSeconds(60);

    private readonly string _name;
    private readonly string? _folder;

    private protected InstalledServer(string name, Uri address, string? folder) => (_name, Address, _folder) = (name, address, folder);

    /// <summary>Where it listens, as <c>scheme://host:port</c>.</summary>
    public Uri Address { get; }

    private protected ServerProcess? Process { get; private set; }

    private protected string Folder => _folder ?? throw new InvalidOperationException($"{_name} at {Address} is not this process's to control.");

    /// <inheritdoc/>
    public async ValueTask DisposeAsync()
    {
        GC.SuppressFinalize(this);
        if (_folder is null)
            return;
        await EndAsync(Signal.Kill);
        Directory.Delete(_folder, recursive: true);
    }

    /// <summary>The server that the environment names; null when it names none.</summary>
    private protected static Uri? FindConfigured(string variable) => Environment.GetEnvironmentVariable(variable) is { Length: > 0 } address ? new Uri(address) : null;

    /// <summary>Why there is no server, neither installed nor named; null when there is one.</summary>
    private protected static string? FindReason(string variable, string? whyNotInstalled) =>
        whyNotInstalled is null || FindConfigured(variable) is not null ? null : $"{whyNotInstalled} {variable} names no server either.";

    /// <summary>An address of this machine where nothing listens.</summary>
    private protected static Uri FreeAddress(string scheme) => new(string.Create(CultureInfo.InvariantCulture, $"{scheme}://127.0.0.1:{FreePort.Take(1)[0]}"));

    /// <summary>Starts it; completes when it has written that it is ready.</summary>
    private protected Task StartAsync(string program, string[] arguments, string ready)
    {
        var path = InstalledProgram.Find(program) ?? throw new ServerStartException($"{_name} is not installed.");
        var process = Process = ServerProcess.Start(path, arguments, new Dictionary<string, string>());
        return process.WaitUntilAsync(() => Task.FromResult(process.Output.Contains(ready, StringComparison.Ordinal)), _name);
    }

    /// <summary>Ends it by a signal; completes when it has ended.</summary>
    private protected async Task EndAsync(int signal)
    {
        if (Process is not { } process)
            return;
        Signal.Send(process.Id, signal);
        await process.WaitForExitAsync(StopLimit);
        process.Dispose();
        Process = null;
    }
}
