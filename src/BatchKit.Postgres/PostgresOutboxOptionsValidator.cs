using Microsoft.Extensions.Options;

namespace BatchKit.Postgres;

/// <summary>Checks the options by their attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class PostgresOutboxOptionsValidator : IValidateOptions<PostgresOutboxOptions>
{
    private static readonly PostgresOutboxOptionsValidator Shared = new();

    public static void ThrowIfInvalid(PostgresOutboxOptions options)
    {
        var result = Shared.Validate(Options.DefaultName, options);
        if (result.Failed)
            throw new OptionsValidationException(Options.DefaultName, typeof(PostgresOutboxOptions), result.Failures);
    }
}
