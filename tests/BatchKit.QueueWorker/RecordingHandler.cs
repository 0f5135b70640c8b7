using System.Buffers.Text;
using BatchKit.Postgres;
using BatchKit.TestServers.QueueWorker;
using Npgsql;
using NpgsqlTypes;

namespace BatchKit.QueueWorker;

/// <summary>Writes down each handling as it begins, in a statement that commits by itself, and then takes its time.</summary>
/// <remarks>It does not heed its token: a handler that goes on when its claim was lost is what the tests are about.</remarks>
internal sealed class RecordingHandler(NpgsqlDataSource records, QueueWorkerSettings settings) : IMessageHandler<QueueMessage>
{
    private readonly string _statement = $"""
        insert into {settings.Table} (number, id, attempt, key, process)
        select u.number, u.id, u.attempt, u.key, $5 from unnest($1, $2, $3, $4) with ordinality as u(number, id, attempt, key, place) order by u.place
        """;

    public async ValueTask HandleAsync(IReadOnlyList<QueueMessage> batch, CancellationToken cancellationToken)
    {
        await RecordAsync(batch);
        if (settings.HandlerTime > TimeSpan.Zero)
            await Task.Delay(settings.HandlerTime, CancellationToken.None);
        foreach (var message in batch)
        {
            if (settings.FailEvery > 0 && message.Attempt == 1 && NumberOf(message) % settings.FailEvery == 0)
                message.Retry("It fails at first.", TimeSpan.Zero);
        }
    }

    private static long NumberOf(QueueMessage message) =>
        Utf8Parser.TryParse(message.Payload.Span, out long number, out _) ? number : throw new InvalidDataException("A message has no number.");

    private async Task RecordAsync(IReadOnlyList<QueueMessage> batch)
    {
        await using var command = records.CreateCommand(_statement);
        command.Parameters.Add(new NpgsqlParameter<long[]> { TypedValue = [.. batch.Select(NumberOf)] });
        command.Parameters.Add(new NpgsqlParameter<long[]> { TypedValue = [.. batch.Select(message => message.Id)] });
        command.Parameters.Add(new NpgsqlParameter<int[]> { TypedValue = [.. batch.Select(message => message.Attempt)] });
        command.Parameters.Add(new NpgsqlParameter<string?[]> { TypedValue = [.. batch.Select(message => message.Key)], NpgsqlDbType = NpgsqlDbType.Array | NpgsqlDbType.Text });
        command.Parameters.Add(new NpgsqlParameter<int> { TypedValue = Environment.ProcessId });
        await command.ExecuteNonQueryAsync();
    }
}
