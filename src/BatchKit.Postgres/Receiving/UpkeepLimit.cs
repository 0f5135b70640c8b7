using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>The limits of one upkeep. After one that did not end in time, the next does as little as it can and has twice the time: it would take the same claims, and never succeed.</summary>
internal sealed class UpkeepLimit(TimeSpan commandTimeout)
{
    /// <summary>How many bytes of payload an upkeep may take; its first claim may have more.</summary>
    public const long MaxBytes = 8 * 1024 * 1024;

    // A few claims, because each may hold megabytes, and the server moves about 10 MiB a second.
    private const int MaxClaims = 10;
    private const int MaxFactor = 64;

    private volatile int _factor = 1;

    /// <summary>The time limit of its statements.</summary>
    public int TimeoutSeconds => WholeSeconds.Of(_factor * commandTimeout);

    /// <summary>How many ended claims it may take.</summary>
    public int Claims => _factor == 1 ? MaxClaims : 1;

    public async Task<UpkeepReport> ApplyAsync(Task<UpkeepReport> upkeep)
    {
        try
        {
            var report = await upkeep.ConfigureAwait(false);
            // Claims that take as long may follow.
            if (report.Returned + report.Buried == 0)
                _factor = 1;
            return report;
        }
        catch (NpgsqlException exception) when (exception is { InnerException: TimeoutException } or { SqlState: PostgresErrorCodes.QueryCanceled })
        {
            _factor = Math.Min(2 * _factor, MaxFactor);
            throw;
        }
    }
}
