using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;

namespace BatchKit.PackageMatrix;

/// <summary>One way to connect: a host that sends to itself over it.</summary>
/// <param name="Name">What the report calls it.</param>
/// <param name="Handle">The destination of the messages.</param>
/// <param name="Register">Registers the way in the host's services.</param>
internal sealed record Way(string Name, OutputHandle Handle, Action<IServiceCollection> Register)
{
    private const int Scopes = 10;

    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(30);
    private static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(20);

    /// <summary>The key of the buffer in the services; empty for the unnamed one.</summary>
    public string Buffer { get; init; } = "";

    /// <summary>What ends each message, where the destination needs it.</summary>
    public string LineEnd { get; init; } = "";

    /// <summary>Sends one message in the place of a write to the buffer, where the destination's output is not the application's to write.</summary>
    public Func<IServiceProvider, string, Task>? WriteAsync { get; init; }

    /// <summary>Prepares what is not of the host, such as an application's own connection.</summary>
    public Func<Task> BeforeAsync { get; init; } = static () => Task.CompletedTask;

    /// <summary>Waits until the destination is there; the host has started, and its health checks are healthy.</summary>
    public Func<IServiceProvider, CancellationToken, Task> ReadyAsync { get; init; } = static (_, _) => Task.CompletedTask;

    /// <summary>Returns what else is wrong once all have arrived, or null.</summary>
    public Func<IServiceProvider, string?> Check { get; init; } = static _ => null;

    /// <summary>Ends what <see cref="BeforeAsync"/> began.</summary>
    public Func<Task> AfterAsync { get; init; } = static () => Task.CompletedTask;

    public async Task<(bool IsWhole, string Text)> RunAsync()
    {
        var arrivals = new Arrivals();
        string? fault;
        try
        {
            await BeforeAsync();
            fault = await CarryAsync(arrivals);
            await AfterAsync();
        }
        // The report has a line for each way, whatever another one met.
        catch (Exception exception)
        {
            fault = $"{exception.GetType().Name}: {exception.Message}";
        }

        var (isWhole, text) = arrivals.Describe();
        return (isWhole && fault is null, fault is null ? text : $"{text}. {fault}");
    }

    public static async Task WaitUntilHealthyAsync(IServiceProvider services, CancellationToken cancellationToken)
    {
        var checks = services.GetRequiredService<HealthCheckService>();
        using var timer = new PeriodicTimer(Pause);
        HealthReport report;
        do
        {
            report = await checks.CheckHealthAsync(cancellationToken);
        }
        while (report.Status != HealthStatus.Healthy && await timer.WaitForNextTickAsync(cancellationToken));
    }

    private async Task<string?> CarryAsync(Arrivals arrivals)
    {
        using var limit = new CancellationTokenSource(Limit);
        var builder = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        builder.Services.AddSingleton(arrivals);
        Register(builder.Services);
        using var host = builder.Build();
        await host.StartAsync(limit.Token);
        await WaitUntilHealthyAsync(host.Services, limit.Token);
        await ReadyAsync(host.Services, limit.Token);
        var sending = SendAsync(host.Services);
        await Task.WhenAll(sending, arrivals.All).WaitAsync(limit.Token);
        // Whatever arrives twice has arrived when the host has stopped.
        var fault = Check(host.Services);
        await host.StopAsync(limit.Token);
        return fault;
    }

    private async Task SendAsync(IServiceProvider services)
    {
        var output = services.GetRequiredKeyedService<OutputBuffer>(Buffer);
        for (var scope = 0; scope < Scopes; scope++)
        {
            await using (output.BeginBufferingScope(Handle))
            {
                for (var number = scope * Arrivals.Expected / Scopes; number < (scope + 1) * Arrivals.Expected / Scopes; number++)
                {
                    if (WriteAsync is null)
                        output.Write(Handle, Arrivals.TextOf(number) + LineEnd);
                    else
                        await WriteAsync(services, Arrivals.TextOf(number));
                }
            }
        }
    }
}
