using System.Globalization;
using System.Runtime.InteropServices;
using System.Text;
using BatchKit.Postgres;
using BatchKit.RabbitMQ;
using BatchKit.TestServers.OutboxWorker;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.OutboxWorker;

/// <summary>Stores its lines while it sends on, and goes on sending until it is told to end (SIGTERM).</summary>
internal static class WorkerProgram
{
    private const int LinesPerScope = 20;

    public static async Task<int> RunAsync(OutboxWorkerSettings settings)
    {
        var told = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        using var terminated = PosixSignalRegistration.Create(PosixSignal.SIGTERM, context =>
        {
            context.Cancel = true;
            told.TrySetResult();
        });

        using var loggers = LoggerFactory.Create(logging => logging.AddSimpleConsole(console => console.SingleLine = true).SetMinimumLevel(LogLevel.Warning));
        await using var dataSource = NpgsqlDataSource.Create(settings.Database);
        await using var transport = new RabbitMqTransport(RabbitOptions(settings));
        await using var outbox = new PostgresOutbox(
            dataSource, transport, new PostgresOutboxOptions { Schema = settings.Schema, ClaimTimeLimit = OutboxWorkerSettings.ClaimTimeLimit }, logger: loggers.CreateLogger<PostgresOutbox>());
        await outbox.StartAsync(CancellationToken.None);
        await Console.Out.WriteLineAsync(OutboxWorkerProcess.Working);

        await StoreAsync(outbox, settings.Lines);
        await Console.Out.WriteLineAsync(OutboxWorkerProcess.Stored);
        await told.Task;
        await outbox.StopAsync(CancellationToken.None);
        return 0;
    }

    private static async Task StoreAsync(PostgresOutbox outbox, int lines)
    {
        var handle = OutputHandle.Connection(OutboxWorkerSettings.Node, OutboxWorkerSettings.Connection);
        await using var output = new OutputBuffer(outbox);
        for (var first = 0; first < lines; first += LinesPerScope)
        {
            // Disposing completes with the acknowledgement, which is the commit.
            await using var scope = output.BeginBufferingScope(handle);
            for (var line = first; line < Math.Min(first + LinesPerScope, lines); line++)
                output.Write(handle, Encoding.UTF8.GetBytes(string.Create(CultureInfo.InvariantCulture, $"line {line}")));
        }
    }

    private static RabbitMqOptions RabbitOptions(OutboxWorkerSettings settings) =>
        new() { ConnectionString = settings.Broker.OriginalString, Prefix = settings.Prefix, MaxReconnectDelay = TimeSpan.FromMilliseconds(500) };
}
