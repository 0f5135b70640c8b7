using Microsoft.Extensions.Options;

namespace BatchKit.Postgres;

/// <summary>Checks the options by their attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class PostgresQueueReceiverOptionsValidator : IValidateOptions<PostgresQueueReceiverOptions>
{
    private static readonly PostgresQueueReceiverOptionsValidator Shared = new();

    public static void ThrowIfInvalid(PostgresQueueReceiverOptions options)
    {
        var result = Shared.Validate(Options.DefaultName, options);
        if (result.Failed)
            throw new OptionsValidationException(Options.DefaultName, typeof(PostgresQueueReceiverOptions), result.Failures);
    }
}
