using BatchKit.Tool.Commands;
using Npgsql;

namespace BatchKit.Tool;

/// <summary>Finds the database that the command line or the environment names.</summary>
internal static class Database
{
    private const string Form = "It has the form Host=…;Username=…;Password=…;Database=….";

    public static NpgsqlDataSource Open(string? connection)
    {
        if (string.IsNullOrWhiteSpace(connection))
            connection = Environment.GetEnvironmentVariable(SharedOptions.ConnectionVariable);
        if (string.IsNullOrWhiteSpace(connection))
            throw new UsageException($"Which database? Give --connection, or set {SharedOptions.ConnectionVariable}. {Form}");
        try
        {
            var builder = new NpgsqlConnectionStringBuilder(connection);
            if (string.IsNullOrEmpty(builder.ApplicationName))
                builder.ApplicationName = "batchkit";
            return NpgsqlDataSource.Create(builder);
        }
        catch (Exception exception) when (exception is ArgumentException or FormatException or InvalidCastException)
        {
            // The exception quotes what it does not understand, which may be the password.
            throw new UsageException($"The connection can't be understood. {Form}");
        }
    }
}

/// <summary>What was asked for can't be done as it was asked.</summary>
internal sealed class UsageException(string message) : Exception(message);
