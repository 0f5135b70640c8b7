namespace BatchKit.Postgres;

/// <summary>What this package logs; ids from 2600.</summary>
internal static partial class Log
{
}
